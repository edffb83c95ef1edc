"""Torture: a pipeline whose processes and servers are killed, frozen and restarted, and the count of what it did.

`faults` chooses what happens when, from a seed. `stage` is what it happens on: a broker and a database. `worker` is a
consumer as a process, to be ended without a word, and `link` joins it to whoever started it; `pipes` is the broker for
those who have none. `ledger` is the effect that must happen once; `running` drives it all; `report` tells what came out.
"""
