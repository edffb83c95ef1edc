"""SQLite over a fork: a child's marks survive what the parent does with its own connection."""

import ctypes
import os

import pytest

from dupeproof import Once


def in_child(work) -> int:
    """Run `work` in a forked child; its answer as the exit code."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = int(work())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_childs_marks_survive_the_parents_close(tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    once = Once(url)
    once.seen("a")
    told, tell = os.pipe()

    def child() -> bool:
        once.seen("b")
        os.write(ready_w, b"x")
        os.read(told, 1)
        return once.seen("order-7")

    ready_r, ready_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = int(child())
        finally:
            os._exit(code)
    os.read(ready_r, 1)
    once.close()
    os.write(tell, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with Once(url) as later:
        assert later.seen("order-7") is True
        assert later.seen("b") is True


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_parent_and_child_see_each_others_marks(tmp_path):
    once = Once(f"sqlite:///{tmp_path}/x.db")
    once.seen("parent's")
    assert in_child(lambda: once.seen("parent's") and not once.seen("child's")) == 1
    assert once.seen("child's") is True
    once.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("other", ["folder/../x.db", "link.db", "linked/x.db"])
def test_a_child_that_python_was_not_told_of_may_spell_the_path_in_another_way(tmp_path, other):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "x.db")
    (tmp_path / "linked").symlink_to(tmp_path)
    once = Once(f"sqlite:///{tmp_path}/x.db")
    once.seen("parent's")
    ready_r, ready_w = os.pipe()
    told, tell = os.pipe()
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        code = 99
        try:
            mine = Once(f"sqlite:///{tmp_path}/{other}")
            mine.seen("first")
            os.write(ready_w, b"x")
            os.read(told, 1)
            code = int(mine.seen("second"))
        finally:
            os.write(ready_w, b"x")
            os._exit(code)
    os.read(ready_r, 1)
    once.close()
    os.write(tell, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with Once(f"sqlite:///{tmp_path}/x.db") as later:
        assert [later.seen(key) for key in ("parent's", "first", "second")] == [True, True, True]
