"""The conformance suite for HTTP: one run of the handler per key, on a server that is running.

    class TestMyApp(HttpConformance):
        @pytest.fixture
        def url(self):
            return "http://127.0.0.1:8000"

        def order(self, name):
            return {"method": "POST", "url": "/charges", "json": {"reference": name}}

        def runs(self, client, name):
            return client.get(f"/charges?reference={name}").json()["count"]

`HttpSlowConformance` needs a request that takes as long as it is asked to, `HttpResponseConformance` paths that answer in
the ways they are named for. Needs pytest and httpx.
"""

from dupeproof.testing.http.keys import HttpConformance
from dupeproof.testing.http.responses import HttpResponseConformance
from dupeproof.testing.http.slow import HttpSlowConformance

__all__ = ["HttpConformance", "HttpResponseConformance", "HttpSlowConformance"]
