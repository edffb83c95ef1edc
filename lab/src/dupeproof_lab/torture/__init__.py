"""Torture: a pipeline whose processes and servers are killed, frozen and restarted, and the count of what it did.

`faults` chooses what happens when, from a seed. `stage` is what it happens on: a broker and a database. Messages go from
`producer` through an outbox and `relaying` to consumers. `worker` is a consumer or the relay as a process, to be ended
without a word; `link` joins it to whoever started it, and its `probe` stops it where a fault is to strike. `pipes` is the
broker for those who have none. `ledger` is the effect that must happen once. `workers` are the processes as seen from
outside, `striking` aims and inflicts; `running` drives it all; `report` tells what came out.
"""
