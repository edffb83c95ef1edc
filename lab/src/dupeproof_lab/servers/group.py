"""Several processes that together are one server, as a cluster is."""

from collections.abc import Sequence

from .base import ProcessServer, Server


class ServerGroup(Server):
    """Does to all its nodes what it is asked to do; forming them into one server is each group's own matter."""

    nodes: Sequence[ProcessServer]

    def start(self) -> None:
        """All at a time: they are waited for once, not one after the other."""
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait_ready()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def restart(self) -> None:
        for node in self.nodes:
            node.end()
        self.start()

    def pause(self) -> None:
        for node in self.nodes:
            node.pause()

    def resume(self) -> None:
        for node in self.nodes:
            node.resume()
