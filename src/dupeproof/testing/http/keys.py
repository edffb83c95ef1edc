"""Keys, duplicates and scopes: what every guarded app must do."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from dupeproof.testing.http.base import KEY, REPLAYED, HttpCase, answered, new_name

_MALFORMED = {
    "empty": "",
    "empty quotes": '""',
    "blank": '"  "',
    "quote left open": '"abc',
    "quote inside": 'a"b',
    "bad escape": '"a\\b"',
    "text after the quotes": '"abc" def',
    "parameter": '"abc";a=1',
    "list": "abc, def",
    "list of strings": '"abc", "def"',
    "not ASCII": "k\xe9y",
    "control character": "a\tb",
}
_CROWD = 50


class HttpConformance(HttpCase):
    def test_a_retry_gets_the_same_response_and_does_not_run(self, client: httpx.Client) -> None:
        key, name = new_name(), new_name()
        first = self.send(client, key, self.order(name))
        again = self.send(client, key, self.order(name))
        assert first.is_success
        assert REPLAYED not in first.headers
        assert again.headers[REPLAYED] == "true"
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again.headers.get("location") == first.headers.get("location")
        assert again.headers["content-type"] == first.headers["content-type"]
        assert self.runs(client, name) == 1

    def test_a_quoted_key_is_the_same_as_a_bare_one(self, client: httpx.Client) -> None:
        key, name = new_name(), new_name()
        self.send(client, f'"{key}"', self.order(name))
        assert self.send(client, key, self.order(name)).headers[REPLAYED] == "true"
        assert self.runs(client, name) == 1

    def test_another_key_is_another_request(self, client: httpx.Client) -> None:
        name = new_name()
        self.send(client, new_name(), self.order(name))
        assert REPLAYED not in self.send(client, new_name(), self.order(name)).headers
        assert self.runs(client, name) == 2

    def test_a_key_with_another_request_is_refused(self, client: httpx.Client) -> None:
        key, name, other = new_name(), new_name(), new_name()
        self.send(client, key, self.order(name))
        assert answered(self.send(client, key, self.order(other)), self.mismatch_status, "key-reused")
        assert (self.runs(client, name), self.runs(client, other)) == (1, 0)

    def test_another_query_is_another_request(self, client: httpx.Client) -> None:
        key, name = new_name(), new_name()
        self.send(client, key, self.order(name))
        other = {**self.order(name), "params": {"currency": "eur"}}
        assert answered(self.send(client, key, other), self.mismatch_status, "key-reused")
        assert self.runs(client, name) == 1

    @pytest.mark.parametrize("value", _MALFORMED.values(), ids=_MALFORMED)
    def test_a_malformed_key_is_refused(self, client: httpx.Client, value: str) -> None:
        name = new_name()
        pairs = [*self.user("someone").items(), (KEY, value)]
        headers = [(header.encode(), each.encode("latin-1")) for header, each in pairs]
        response = client.request(**self.order(name), headers=headers)
        assert answered(response, 400, "key-malformed")
        assert self.runs(client, name) == 0

    def test_a_key_sent_twice_is_refused(self, client: httpx.Client) -> None:
        name = new_name()
        headers = [*self.user("someone").items(), (KEY, "a"), (KEY, "a")]
        assert answered(client.request(**self.order(name), headers=headers), 400, "key-malformed")
        assert self.runs(client, name) == 0

    def test_a_key_may_have_255_characters_and_no_more(self, client: httpx.Client) -> None:
        name = new_name()
        key = new_name().ljust(255, "x")
        assert answered(self.send(client, key + "x", self.order(name)), 400, "key-too-long")
        assert self.runs(client, name) == 0
        assert self.send(client, key, self.order(name)).is_success
        assert self.runs(client, name) == 1

    def test_users_do_not_share_keys(self, client: httpx.Client) -> None:
        key, name = new_name(), new_name()
        self.send(client, key, self.order(name))
        theirs = client.request(**self.order(name), headers={**self.user("another"), KEY: key})
        assert theirs.is_success
        assert REPLAYED not in theirs.headers
        assert self.runs(client, name) == 2

    def test_nobody_in_particular_is_refused(self, client: httpx.Client) -> None:
        """By your app, which knows who may ask, and is asked although there is a key."""
        name = new_name()
        response = client.request(**self.order(name), headers={KEY: new_name()})
        assert response.status_code in (401, 403)
        assert self.runs(client, name) == 0

    def test_of_a_crowd_one_runs(self, client: httpx.Client) -> None:
        key, name = new_name(), new_name()
        # A connection that the server closes just when it is to be used again would be our trouble, not the app's.
        once = {"Connection": "close"}
        self.send(client, new_name(), self.order(new_name()), **once)
        with ThreadPoolExecutor(_CROWD) as crowd:
            responses = list(
                crowd.map(lambda _: self.send(client, key, self.order(name), **once), range(_CROWD))
            )
        assert self.runs(client, name) == 1
        answers = [response for response in responses if response.status_code != 409]
        assert len({response.content for response in answers}) == 1
        assert sum(REPLAYED not in response.headers for response in answers) == 1
        for response in responses:
            if response.status_code == 409:
                assert answered(response, 409, "in-progress")
                assert int(response.headers["retry-after"]) <= 5
        assert self.send(client, key, self.order(name)).headers[REPLAYED] == "true"
