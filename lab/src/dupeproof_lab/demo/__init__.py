"""The demonstration: one order pipeline, three consumers, all of them killed again and again.

Everything is real but small. `queue` delivers at least once; `ledger` is the outside world, where a charge is made
and stays made; `consumers` are the three ways to use them; `killing` runs one of them in processes it ends with
SIGKILL at random moments; `running` runs the three side by side; `report`, `picture` and `page` show what came out.
"""
