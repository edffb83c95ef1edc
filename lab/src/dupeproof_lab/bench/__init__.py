"""The benchmark: what dupeproof does a second, and what the usual ways and the other libraries do in the same run.

`heats` are tables of contenders: who does what, fed how (`shapes`), on which store (`sites`). `racing` runs the contenders
of a heat in turn, `weighing` fills stores and looks at their size, `scaling` lets them grow. `published` and `goals` say
what the figures are held against; `running` does all of it, `report`, `picture`, `page` and `text` show it.

What makes the figures comparable: contenders take turns, so that whatever the machine does hits all of them; a round of
new ids starts on an empty store, with ids nobody has seen or hashed; before it is timed, each contender proves that it
does its job and warms up; the garbage is collected before every round and the collector left on; calls are watched one
by one in a pass of their own.
"""
