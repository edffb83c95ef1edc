"""An HTTP server on a real socket that does with each request what its script says next."""

import socket
import threading


def answer(status, body=b"", **headers):
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


HANG_UP = b""
"""Close without a word, when the request has been read."""
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
GARBAGE = b"what?\r\n\r\n"


class Server:
    """Each connection is one request. What was asked is kept; what is answered is the next of the script, or its last."""

    def __init__(self, *script):
        self.script = list(script)
        self.asked = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/orders"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)

    @property
    def keys(self):
        return [headers.get("idempotency-key") for _, headers, _ in self.asked]

    def _serve(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self.asked.append(_read(connection))
                step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                connection.sendall(step)


def _read(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    request, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        while not body.endswith(b"0\r\n\r\n"):
            body += connection.recv(65_536)
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65_536)
    return request.split(" ")[0], headers, body
