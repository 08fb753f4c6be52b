-- The tables of a cluster. They are executed with `search_path` at their schema.

create table version (
    version int not null,
    touched bigint not null default 0,
    -- Names the cluster in its object store.
    cluster uuid not null default gen_random_uuid(),
    -- The session that merges runs.
    merger uuid,
    -- The number of the last catalogue, and up to where in the order of `run.seq` the object store has one.
    catalogue bigint not null default 0,
    catalogued bigint not null default 0
);
insert into version (version) values (2);

-- The last attempt of each data directory to begin a session. Rows stay, so an attempt that arrives late is always refused.
create table directory (
    id uuid primary key,
    attempt bigint not null,
    touched bigint not null default 0
);

create table session (
    number bigint generated always as identity primary key,
    -- A number can come back when the server loses commits. What a session leaves is named by this.
    nonce uuid not null unique,
    directory uuid not null,
    -- Where clients reach it.
    address text,
    -- Up to here in the order of `run.seq` it has the list of runs.
    told bigint not null default 0,
    is_fenced bool not null default false,
    touched bigint not null default 0
) with (fillfactor = 20);
create index on session (directory);

-- Separate from `session`, so that renewals wait for no other statement.
create table lease (
    session bigint primary key,
    nonce uuid not null,
    renewals bigint not null default 0,
    is_fenced bool not null default false
) with (fillfactor = 20);

-- Separate for the same reason: an append waits for the standby.
create table lane (
    session bigint primary key,
    nonce uuid not null,
    lsn bigint not null default 0,
    archived bigint not null default 0,
    listed bigint not null default 0,
    is_fenced bool not null default false,
    touched bigint not null default 0
) with (fillfactor = 20);

create table shard (
    shard int primary key,
    owner bigint,
    generation bigint not null default 0,
    since bigint not null default 0,
    -- Where the lanes of all earlier owners were when their tenures ended, added up.
    floor bigint not null default 0
) with (fillfactor = 50);
create index on shard (owner);

-- The classes of objects, whose numbers are in logs and runs. They are numbered without gaps, and never removed.
create table namespace (
    number int primary key,
    unique_key text not null unique
);

-- The records of a tenure that ended, in the lane of its session, that are in no run. The owner of the shard archives them.
create table part (
    shard int,
    generation bigint,
    session bigint not null,
    since bigint not null,
    until bigint not null,
    primary key (shard, generation)
);
create index on part (session);

-- Readers learn of runs in the order of `seq`, in which they become visible.
create table run (
    seq bigint generated always as identity primary key,
    -- The places that it has in the list: its own `seq`, or those of all from which it was merged.
    first bigint not null,
    last bigint not null,
    -- The session that has written it, and its number among those that the session has published; null if it was merged.
    nonce uuid not null,
    number bigint,
    -- What it has, and where it is. Only readers of runs understand it.
    about text not null,
    place text not null unique,
    unique (nonce, number)
);

-- Runs that another has replaced, whose `seq` this is. They are removed when no session reads them any more.
create table replaced_run (
    place text primary key,
    seq bigint not null,
    since timestamptz not null default now()
);
