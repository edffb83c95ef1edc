"""A TCP proxy in front of a server that counts round trips and, when told, loses a request or a reply, or is slow.

It can also be a firewall that forgot its connections, and a network on which requests are long under way.
"""

import contextlib
import socket
import threading
import time
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Listens on a port of its own. What a client sends until the server answers is one request."""

    def __init__(self, url, *, delay=0.0):
        self.delay = delay
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        netloc = parts.netloc.rpartition("@")[0]
        place = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = urlunsplit(parts._replace(netloc=f"{netloc}@{place}" if netloc else place))
        self.requests = []
        self._lock = threading.Lock()
        self._plan = None
        self.lost, self.arriving, self.arrived = threading.Event(), threading.Event(), threading.Event()
        self._forgotten = set()
        self._conversations = set()
        self.passing = threading.Event()
        self.passing.set()
        self._sockets = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def lose(self, what, containing):
        """Cut the connection at the next request that contains these bytes: before the server gets it ("request"),
        when the server has carried it out and answered ("reply"), or before, and it arrives with `arrive()` ("late")."""
        self.lost.clear()
        self._plan = (what, containing)

    def forget(self):
        """Nothing more goes through on the connections there are, either way; new ones work."""
        self._forgotten = set(self._conversations)

    def hold(self):
        """Requests on the connections there are wait here. Whoever connects now is not served, ever."""
        self.passing.clear()

    def let_go(self):
        """They go on to the server, although those who sent them may have left."""
        self.passing.set()

    def arrive(self):
        """Let the request that was lost as "late" reach the server, and wait for its answer, which nobody gets."""
        self.arriving.set()
        assert self.arrived.wait(20)

    def is_forgotten(self, conversation):
        return conversation in self._forgotten

    def count(self, containing):
        return sum(containing in request for request in self.requests)

    def close(self):
        self.passing.set()
        self.arriving.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()  # nobody new comes in
        for each in self._sockets:
            _cut(each)
        for thread in self._threads[1:]:
            thread.join()
        for each in [self._listener, *self._sockets]:
            each.close()

    def _accept(self):
        with contextlib.suppress(OSError):  # the listener was shut
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                if not self.passing.is_set():
                    continue
                try:
                    server = socket.create_connection(self._server)
                except ConnectionRefusedError:
                    _cut(client)
                    continue
                self._sockets.append(server)
                self._serve(client, server)

    def _serve(self, client, server):
        conversation = _Conversation(self, client, server)
        self._conversations.add(conversation)
        for thread in conversation.threads():
            self._threads.append(thread)
            thread.start()

    def planned(self, request):
        """What to lose of this request, if anything; a plan is carried out once."""
        with self._lock:
            if self._plan is None or self._plan[1] not in request:
                return None
            (what, _), self._plan = self._plan, None
            return what


class _Conversation:
    """One client and its connection to the server."""

    def __init__(self, proxy, client, server):
        self._proxy = proxy
        self._client = client
        self._server = server
        self._losing_reply = False
        self._answered = True
        self._is_late = False

    def threads(self):
        return [threading.Thread(target=self._upstream), threading.Thread(target=self._downstream)]

    def _upstream(self):
        with contextlib.suppress(OSError):
            while data := self._client.recv(1 << 20):
                if self._proxy.is_forgotten(self):
                    continue
                if self._answered:
                    self._proxy.requests.append(b"")
                    self._answered = False
                self._proxy.requests[-1] += data
                what = self._proxy.planned(data)
                if what == "request":
                    self._end()
                    return
                if what == "late":
                    self._proxy.lost.set()
                    _cut(self._client)
                    self._is_late = True
                    self._proxy.arriving.wait()
                    self._server.sendall(data)
                    return
                self._losing_reply = what == "reply" or self._losing_reply
                time.sleep(self._proxy.delay)
                self._proxy.passing.wait()
                self._server.sendall(data)
        _cut(self._server)

    def _downstream(self):
        with contextlib.suppress(OSError):
            while data := self._server.recv(1 << 20):
                if self._proxy.is_forgotten(self):
                    continue
                self._answered = True
                if self._is_late:
                    self._proxy.arrived.set()
                if self._losing_reply:
                    self._end()
                    return
                self._client.sendall(data)
        _cut(self._client)

    def _end(self):
        self._proxy.lost.set()
        _cut(self._client)
        _cut(self._server)


def _cut(each):
    with contextlib.suppress(OSError):  # the other side may have been faster
        each.shutdown(socket.SHUT_RDWR)
