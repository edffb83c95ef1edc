"""What becomes of each kind of response."""

from typing import Any

import httpx
import pytest

from dupeproof.testing.http.base import KEY, REPLAYED, STORED, HttpCase, answered, new_name


class HttpResponseConformance(HttpCase):
    """The app answers each of these paths as its name says; see the methods."""

    def ask(self, kind: str, name: str) -> dict[str, Any]:
        return {"method": "POST", "url": f"/{kind}", "json": {"name": name}}

    def test_bytes_are_replayed_as_they_were(self, client: httpx.Client) -> None:
        """`binary` answers with all bytes there are."""
        key, request = new_name(), self.ask("binary", new_name())
        assert self.send(client, key, request).content == bytes(range(256))
        again = self.send(client, key, request)
        assert again.headers[REPLAYED] == "true"
        assert again.content == bytes(range(256))

    def test_headers_of_the_one_exchange_are_not_replayed(self, client: httpx.Client) -> None:
        """`headers` answers with a cookie, an id of the request, and two values of X-Kept."""
        key, request = new_name(), self.ask("headers", new_name())
        first, again = self.send(client, key, request), self.send(client, key, request)
        assert first.headers["set-cookie"]
        assert first.headers["x-request-id"]
        assert again.headers[REPLAYED] == "true"
        assert "set-cookie" not in again.headers
        assert "x-request-id" not in again.headers
        assert first.headers["x-kept"] == again.headers["x-kept"] == "one, two"

    def test_an_answer_without_content_is_replayed(self, client: httpx.Client) -> None:
        """`nothing` answers with 204."""
        key, name = new_name(), new_name()
        for _ in range(2):
            response = self.send(client, key, self.ask("nothing", name))
            assert (response.status_code, response.content) == (204, b"")
        assert self.runs(client, name) == 1

    def test_a_redirection_is_replayed(self, client: httpx.Client) -> None:
        """`elsewhere` answers with 303 and a Location."""
        key, name = new_name(), new_name()
        for _ in range(2):
            response = self.send(client, key, self.ask("elsewhere", name))
            assert (response.status_code, response.headers["location"]) == (303, f"/orders/{name}")
        assert self.runs(client, name) == 1

    def test_a_client_error_is_replayed(self, client: httpx.Client) -> None:
        """`declined` answers with 402."""
        key, name = new_name(), new_name()
        first, again = [self.send(client, key, self.ask("declined", name)) for _ in range(2)]
        assert first.status_code == again.status_code == 402
        assert again.headers[REPLAYED] == "true"
        assert self.runs(client, name) == 1

    def test_a_request_that_is_sent_elsewhere_takes_its_key_along(self, client: httpx.Client) -> None:
        """`moved` answers with 307, and sends to `binary`."""
        key, name = new_name(), new_name()
        for _ in range(2):
            response = self.send(client, key, self.ask("moved", name))
            assert response.status_code == 307
            assert REPLAYED not in response.headers
        first, again = [self.send(client, key, self.ask("binary", name)) for _ in range(2)]
        assert first.content == again.content == bytes(range(256))
        assert again.headers[REPLAYED] == "true"
        assert self.runs(client, name) == 3

    def test_a_corrected_request_may_use_its_key(self, client: httpx.Client) -> None:
        """`invalid` answers with 422."""
        key, name = new_name(), new_name()
        assert self.send(client, key, self.ask("invalid", name)).status_code == 422
        corrected = self.send(client, key, self.order(name))
        assert corrected.is_success
        assert REPLAYED not in corrected.headers

    @pytest.mark.parametrize(("kind", "status"), [("refused", 403), ("broken", 500)])
    def test_what_was_turned_away_or_failed_may_run_again(
        self, client: httpx.Client, kind: str, status: int
    ) -> None:
        """`refused` answers with 403; `broken` raises an exception, or answers with 500."""
        key, name = new_name(), new_name()
        for _ in range(2):
            response = self.send(client, key, self.ask(kind, name))
            assert response.status_code == status
            assert REPLAYED not in response.headers
        assert self.runs(client, name) == 2

    @pytest.mark.parametrize(
        ("kind", "content"),
        [
            ("unbuffered", b"one two three"),
            ("events", b"data: one\n\ndata: two\n\n"),
            ("large", b"x" * 3_000_000),
        ],
    )
    def test_what_cannot_be_kept_is_done_all_the_same(
        self, client: httpx.Client, kind: str, content: bytes
    ) -> None:
        """`unbuffered` generates "one two three" and has `X-Accel-Buffering: no`; `events` are server-sent; `large` is a
        body of three million x.
        """
        key, name = new_name(), new_name()
        first = self.send(client, key, self.ask(kind, name))
        assert first.status_code == 200
        assert first.content == content
        assert first.headers[STORED] == "false"
        again = self.send(client, key, self.ask(kind, name))
        assert answered(again, 409, "already-completed")
        assert again.json()["completed_status"] == 200
        assert self.runs(client, name) == 1

    def test_a_response_without_a_length_is_replayed(self, client: httpx.Client) -> None:
        """`stream` generates "one two three", without a Content-Length."""
        key, name = new_name(), new_name()
        first, again = [self.send(client, key, self.ask("stream", name)) for _ in range(2)]
        assert first.content == again.content == b"one two three"
        assert again.headers[REPLAYED] == "true"
        assert self.runs(client, name) == 1

    def test_a_stream_whose_end_is_not_in_sight_arrives_as_it_is_made(self, client: httpx.Client) -> None:
        """`trickle` generates "first", "second" 1.5 seconds later, and after half a second more "third"."""
        key, request = new_name(), self.ask("trickle", new_name())
        with client.stream(**request, headers={**self.user("someone"), KEY: key}) as response:
            assert response.headers[STORED] == "false"
            pieces = response.iter_raw()
            early = next(pieces)
            # Where nothing but the handler runs, its next piece is waited for.
            assert early in (b"first", b"firstsecond")
            assert early + b"".join(pieces) == b"firstsecondthird"
        assert answered(self.send(client, key, request), 409, "already-completed")

    def test_a_file_is_replayed(self, client: httpx.Client) -> None:
        """`file` answers with a small file."""
        key, name = new_name(), new_name()
        first, again = [self.send(client, key, self.ask("file", name)) for _ in range(2)]
        assert first.content == again.content == b"a small file\n"
        assert again.headers[REPLAYED] == "true"
        assert self.runs(client, name) == 1

    def test_what_fails_after_the_response_does_not_undo_it(self, client: httpx.Client) -> None:
        """`late` answers with "done", and then something raises an exception."""
        key, name = new_name(), new_name()
        assert self.send(client, key, self.ask("late", name)).text == "done"
        again = self.send(client, key, self.ask("late", name))
        assert again.headers[REPLAYED] == "true"
        assert again.text == "done"
        assert self.runs(client, name) == 1
