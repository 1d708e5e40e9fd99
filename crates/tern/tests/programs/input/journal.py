"""sqlite3 with a rollback journal: commits, a rollback, a busy lock, an integrity check."""
import os
import sqlite3

db = sqlite3.connect("data.db", isolation_level=None)
print(db.execute("pragma journal_mode=delete").fetchone())
db.execute("create table t(id integer primary key, name text, value real)")
for chunk in range(10):
    db.execute("begin")
    db.executemany("insert into t(name, value) values(?, ?)", [(f"n{chunk}.{i}", i / 7) for i in range(500)])
    print(chunk, os.path.exists("data.db-journal"))
    db.execute("rollback" if chunk == 4 else "commit")
other = sqlite3.connect("data.db", timeout=0)
db.execute("begin exclusive")
try:
    other.execute("insert into t(name) values('late')")
except sqlite3.OperationalError as e:
    print(e)
db.execute("commit")
print(other.execute("select count(*), round(sum(value), 6) from t").fetchone())
print(db.execute("pragma integrity_check").fetchone(), os.path.exists("data.db-journal"))
