"""Programs are found where they are, installed where that is possible, and missed with a helpful error."""

import contextlib
import stat
import subprocess

import pytest

from dupeproof_lab.servers import Postgres, ProcessServer, Redis, RedisCluster, ServerMissing, install


@pytest.mark.parametrize(
    ("kind", "package", "variable"),
    [
        (Redis, "redis-server", "REDIS_URL"),
        (Postgres, "postgresql", "POSTGRES_URL"),
        (RedisCluster, "redis-server", "REDIS_URL"),
    ],
)
def test_a_missing_server_is_an_error_that_says_what_would_help(kind, package, variable):
    server = kind(search=[])
    with pytest.raises(ServerMissing, match=f"{package}.*{variable}"):
        server.start()
    server.stop()


def test_the_newest_version_comes_first(tmp_path):
    folders = [f"/usr/lib/postgresql/{version}/bin" for version in (9, 15, 16)]
    assert sorted(folders, key=install._numbers) == folders


def test_a_search_list_of_ones_own_is_the_only_place_looked_at(tmp_path):
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert install.find("redis", [str(tmp_path)]) == {"redis-server": program}
    assert install.find("postgres", [str(tmp_path)]) is None


def test_a_library_need_not_be_executable(tmp_path):
    for name in ("faketime", "libfaketime.so.1"):
        (tmp_path / name).touch(0o644)
    assert install.find("faketime", [str(tmp_path)]) is None
    (tmp_path / "faketime").chmod(0o755)
    assert install.find("faketime", [str(tmp_path)])["libfaketime.so.1"] == tmp_path / "libfaketime.so.1"


class Late(ProcessServer):
    """Its package brings the user it runs as."""

    name = "late"
    url = version = ""
    installed = False

    def programs(self):
        self.installed = True
        return {"sleep": "sleep"}

    @property
    def user(self):
        assert self.installed
        return None

    def command(self):
        return [self.programs()["sleep"], "60"]

    def ready(self):
        return True


def test_whom_a_server_runs_as_is_asked_when_its_package_is_there():
    with Late() as server:
        assert server.pid is not None


def test_services_are_held_back_only_during_the_install(tmp_path):
    policy = tmp_path / "policy-rc.d"
    with contextlib.suppress(ZeroDivisionError), install.services_held_back(policy):
        assert subprocess.run([policy], check=False).returncode == 101
        raise ZeroDivisionError
    assert not policy.exists()


def test_a_policy_that_is_there_already_is_respected(tmp_path):
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 0\n")
    before = policy.stat()
    with install.services_held_back(policy):
        assert policy.read_text() == "#!/bin/sh\nexit 0\n"
    assert policy.stat().st_mtime_ns == before.st_mtime_ns
    assert stat.S_IMODE(policy.stat().st_mode) == stat.S_IMODE(before.st_mode)
