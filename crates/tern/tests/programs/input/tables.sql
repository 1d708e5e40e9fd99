create table edge(a int, b int);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 2000) insert into edge select x, (x * 7919) % 2000 from n;
create index by_a on edge(a);
with recursive walk(node, steps) as (select 1, 0 union all select b, steps + 1 from walk join edge on a = node where steps < 50) select group_concat(node) from walk;
select count(*), sum(a * b), avg(b) from edge;
update edge set b = b + 1 where a % 3 = 0;
begin; delete from edge where a > 100; rollback;
select count(*), max(b) from edge;
.schema
