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
        """`invalid` answers with 422."""
        key, name = new_name(), new_name()
        first, again = [self.send(client, key, self.ask("invalid", name)) for _ in range(2)]
        assert first.status_code == again.status_code == 422
        assert again.headers[REPLAYED] == "true"
        assert self.runs(client, name) == 1

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
            ("stream", b"one two three"),
            ("events", b"data: one\n\ndata: two\n\n"),
            ("large", b"x" * 3_000_000),
        ],
    )
    def test_what_cannot_be_kept_is_done_all_the_same(
        self, client: httpx.Client, kind: str, content: bytes
    ) -> None:
        """`stream` generates "one two three"; `events` are server-sent; `large` is a body of three million x."""
        key, name = new_name(), new_name()
        first = self.send(client, key, self.ask(kind, name))
        assert first.status_code == 200
        assert first.content == content
        assert first.headers[STORED] == "false"
        again = self.send(client, key, self.ask(kind, name))
        assert answered(again, 409, "already-completed")
        assert again.json()["completed_status"] == 200
        assert self.runs(client, name) == 1

    def test_a_stream_arrives_as_it_is_made(self, client: httpx.Client) -> None:
        """`trickle` generates "first", and half a second later "second"."""
        headers = {**self.user("someone"), KEY: new_name()}
        with client.stream(**self.ask("trickle", new_name()), headers=headers) as response:
            pieces = response.iter_raw()
            assert next(pieces) == b"first"
            assert b"".join(pieces) == b"second"

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
