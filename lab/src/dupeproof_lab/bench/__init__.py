"""The benchmark: what dupeproof does a second, and what the usual ways and the other libraries do in the same run.

`benchmarks` are tables of candidates: who does what, fed how (`shapes`), on which store (`environments`). `racing` runs the candidates
of a benchmark in turn, `weighing` fills stores and looks at their size, `scaling` lets them grow. `published` and `goals` say
what the figures are held against; `running` does all of it, `report`, `picture`, `page` and `text` show it.

What makes the figures comparable: candidates take turns, so that whatever the machine does hits all of them; a round of
new ids starts on an empty store, with ids nobody has seen or hashed; before it is timed, each candidate proves that it
does its job and warms up; the garbage is collected before every round and the collector left on; calls are watched one
by one in a pass of their own.
"""
