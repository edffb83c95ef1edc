"""PostgreSQL: full durability, the strongest store here.

The schema can be had from here without psycopg, for those who come with a connection of another driver.
"""
