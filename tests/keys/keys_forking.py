"""Run as a program: fork again and again at the start of a millisecond, print the ids of parent and child as JSON."""

import json
import os

from dupeproof.keys import new_id


def fork_and_draw(each):
    read, write = os.pipe()
    before = new_id()
    while new_id()[:13] == before[:13]:
        pass
    pid = os.fork()
    if pid == 0:
        os.write(write, "\n".join([new_id() for _ in range(each)]).encode())
        os._exit(0)
    own = [new_id() for _ in range(each)]
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        childs = pipe.read().decode().split()
    os.waitpid(pid, 0)
    return own, childs


if __name__ == "__main__":
    print(json.dumps([fork_and_draw(each=5) for _ in range(200)]))
