"""PostgreSQL, for the state that several hubs share. The only place that imports psycopg, an optional extra."""
