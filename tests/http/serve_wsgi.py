"""Serve a WSGI app with the standard library's server, a thread for each request."""

import importlib
import socketserver
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


if __name__ == "__main__":
    app = importlib.import_module(sys.argv[1]).app
    with make_server("127.0.0.1", int(sys.argv[2]), app, server_class=Server, handler_class=Quiet) as server:
        server.serve_forever()
