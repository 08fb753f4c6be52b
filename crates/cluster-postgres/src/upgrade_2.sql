-- From version 1 of the tables to version 2. Its sessions, which do not know that runs are replaced, end.

update session set is_fenced = true;
update lease set is_fenced = true;
update lane set is_fenced = true;

alter table version add merger uuid, add catalogue bigint not null default 0, add catalogued bigint not null default 0;
alter table session add told bigint not null default 0;
alter table run add first bigint not null default 0, add last bigint not null default 0;
update run set first = seq, last = seq;
alter table run alter first drop default, alter last drop default;
alter table run alter number drop not null, add unique (place);
create table replaced_run (
    place text primary key,
    seq bigint not null,
    since timestamptz not null default now()
);
update version set version = 2;
