-- The tables of a cluster, and the statements of its sessions. They are executed with `search_path` at their schema.
--
-- Each statement is a function, so a session that is suspended holds no lock: once it has begun, a statement ends without its client.
-- Only readers of logs depend on theirs, and nothing waits for them.
--
-- A statement takes locks in this order: a directory, rows of sessions by number, rows of shards by number, parts, tables of logs, the
-- list of runs, a lease, a lane. What it decides by is read after that, in a later statement of its own, which under READ COMMITTED sees
-- what was committed while it waited. Positions that only grow may be read before: an older one is safe.
--
-- Each statement of a session changes a row, most by `touch`: a transaction that changes nothing does not wait for the standby, so its
-- success would prove nothing. `touch` also compares the nonce; the rest names the session by its number.

create table version (
    version int not null,
    touched bigint not null default 0,
    -- Names the cluster in its object store.
    cluster uuid not null default gen_random_uuid()
);
insert into version values (1);

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

-- Runs are read in the order of `seq`, in which they become visible.
create table run (
    seq bigint generated always as identity primary key,
    nonce uuid not null,
    number bigint not null,
    -- What it has, and where it is. Only readers of runs understand it.
    about text not null,
    place text not null,
    unique (nonce, number)
);

-- A log has two tables, which are filled and emptied in turn.
create function log_table(nonce uuid, half int) returns text language sql immutable as $$
    select 'log_' || replace(nonce::text, '-', '') || '_' || half
$$;

-- All namespaces by number, this one among them.
create function namespaces_with(key text) returns text[] language plpgsql as $$
begin
    -- So that the commit waits for the standby although the namespace may be there, and numbers have no gaps.
    update version set touched = touched + 1;
    insert into namespace (number, unique_key)
        select coalesce(max(number), 0) + 1, key from namespace
        having not exists (select from namespace where unique_key = key);
    return (select array_agg(unique_key order by number) from namespace);
end $$;

create function touch(me bigint, my_nonce uuid) returns bool language plpgsql as $$
begin
    update session set touched = touched + 1 where number = me and nonce = my_nonce and not is_fenced;
    return found;
end $$;

-- Begins a session. It fences those that the same directory began before, whose processes have ended. Null if the directory has made
-- this attempt or a later one before.
create function begin_session(of_directory uuid, this_attempt bigint, my_nonce uuid) returns bigint language plpgsql as $$
declare
    last_attempt bigint;
    me bigint;
begin
    insert into directory (id, attempt) values (of_directory, -1) on conflict do nothing;
    update directory set touched = touched + 1 where id = of_directory returning attempt into last_attempt;
    if last_attempt >= this_attempt then
        return null;
    end if;
    update directory set attempt = this_attempt where id = of_directory;
    perform 1 from session where directory = of_directory order by number for no key update;
    update session set is_fenced = true where directory = of_directory;
    update lease set is_fenced = true
        where session in (select number from session where directory = of_directory);
    update lane set is_fenced = true
        where session in (select number from session where directory = of_directory);
    insert into session (nonce, directory) values (my_nonce, of_directory) returning number into me;
    insert into lease (session, nonce) values (me, my_nonce);
    insert into lane (session, nonce) values (me, my_nonce);
    for half in 0..1 loop
        execute format('create table %I (lsn bigint not null, until bigint primary key, payload bytea not null)', log_table(my_nonce, half));
        -- Pages are compressed, or do not compress.
        execute format('alter table %I alter payload set storage external', log_table(my_nonce, half));
    end loop;
    return me;
end $$;

create function renew(me bigint, my_nonce uuid, to_number bigint) returns bool language plpgsql as $$
begin
    update lease set renewals = greatest(renewals, to_number)
        where session = me and nonce = my_nonce and not is_fenced;
    return found;
end $$;

-- Waits for an append that is being committed.
create function fence(me bigint, my_nonce uuid, target bigint, target_nonce uuid, seen bigint)
    returns bool language plpgsql as $$
begin
    perform 1 from session where number in (me, target) order by number for no key update;
    if not touch(me, my_nonce) then
        return false;
    end if;
    update lease set is_fenced = true
        where session = target and nonce = target_nonce and (is_fenced or renewals = seen);
    if not found then
        return false;
    end if;
    update session set is_fenced = true where number = target;
    update lane set is_fenced = true where session = target;
    return true;
end $$;

-- The session fences itself.
create function leave(me bigint, my_nonce uuid) returns bool language plpgsql as $$
begin
    if not touch(me, my_nonce) then
        return false;
    end if;
    update session set is_fenced = true where number = me;
    update lease set is_fenced = true where session = me;
    update lane set is_fenced = true where session = me;
    return true;
end $$;

-- What a session owns of these shards, with what earlier owners have left.
create function grants(shards int[]) returns jsonb language sql stable as $$
    select coalesce(jsonb_agg(jsonb_build_object(
        'shard', h.shard, 'generation', h.generation, 'since', h.since, 'floor', h.floor,
        'parts', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'generation', p.generation, 'session', p.session, 'nonce', l.nonce, 'since', p.since, 'until', p.until
            ) order by p.generation), '[]')
            from part p join lane l on l.session = p.session where p.shard = h.shard
        )
    ) order by h.shard), '[]')
    from shard h where h.shard = any (shards)
$$;

-- Tenures end. What their owners have not archived, up to a position or to the end of their lanes, becomes parts.
create function end_tenures(shards int[], upto bigint) returns void language sql as $$
    insert into part (shard, generation, session, since, until)
    select h.shard, h.generation, h.owner, greatest(h.since, l.archived), coalesce(upto, l.lsn)
    from shard h join lane l on l.session = h.owner
    where h.shard = any (shards) and greatest(h.since, l.archived) < coalesce(upto, l.lsn);
    update shard h set floor = h.floor + coalesce(upto, l.lsn)
    from lane l where l.session = h.owner and h.shard = any (shards)
$$;

create function give(shards int[], target bigint) returns jsonb language plpgsql as $$
begin
    update shard set owner = target, generation = generation + 1,
        since = (select lsn from lane where session = target)
        where shard = any (shards);
    return grants(shards);
end $$;

-- Takes those shards that are at these generations and have no owner that is not fenced. Null if the session is fenced.
create function claim(me bigint, my_nonce uuid, shards int[], generations bigint[])
    returns jsonb language plpgsql as $$
declare
    free int[];
begin
    if not touch(me, my_nonce) then
        return null;
    end if;
    perform 1 from shard h where h.shard = any (shards) order by h.shard for update;
    select coalesce(array_agg(h.shard), '{}') into free
        from shard h join unnest(shards, generations) as asked (shard, generation)
            on asked.shard = h.shard and asked.generation = h.generation
        where not exists (select from session o where o.number = h.owner and not o.is_fenced);
    perform end_tenures(free, null);
    return give(free, me);
end $$;

-- What a session owns. Only the session itself gives away what it owns while it is not fenced, and that waits for its row.
create function hold(me bigint, my_nonce uuid) returns jsonb language plpgsql as $$
declare
    own int[];
begin
    if not touch(me, my_nonce) then
        return null;
    end if;
    perform 1 from shard where owner = me order by shard for update;
    select coalesce(array_agg(shard), '{}') into own from shard where owner = me;
    return (
        select jsonb_build_object('archived', archived, 'listed', listed, 'grants', grants(own))
        from lane where session = me
    );
end $$;

create function owns(me bigint, shards int[], generations bigint[]) returns bool language sql stable as $$
    select not exists (
        select from unnest(shards, generations) as asked (shard, generation)
        where not exists (
            select from shard h
            where h.shard = asked.shard and h.generation = asked.generation and h.owner = me
        )
    )
$$;

-- Gives a shard away. Null if the session is fenced, does not own it, or is not durable up to the position, or if the target is not live.
create function hand_over(
    me bigint, my_nonce uuid, of_shard int, of_generation bigint, target bigint, target_nonce uuid, upto bigint
) returns jsonb language plpgsql as $$
begin
    if not touch(me, my_nonce) then
        return null;
    end if;
    -- It may be fenced meanwhile, but is not forgotten.
    perform 1 from session where number = target and nonce = target_nonce and not is_fenced for key share;
    if not found then
        return null;
    end if;
    perform 1 from shard where shard = of_shard for update;
    if not owns(me, array[of_shard], array[of_generation])
        or not exists (select from lane where session = me and lsn >= upto) then
        return null;
    end if;
    perform end_tenures(array[of_shard], upto);
    return give(array[of_shard], target);
end $$;

-- Lists a run, unless it is listed. `run_about` and `run_place` are null if it has no records.
create function publish(
    me bigint, my_nonce uuid, this_number bigint, after_number bigint, upto bigint,
    part_shards int[], part_generations bigint[], own_shards int[], own_generations bigint[],
    run_about text, run_place text
) returns bool language plpgsql as $$
declare
    is_listed bigint;
begin
    if not touch(me, my_nonce) then
        return false;
    end if;
    select listed into is_listed from lane where session = me;
    if is_listed = this_number then
        return true;
    end if;
    perform 1 from shard where shard = any (part_shards || own_shards) order by shard for update;
    if is_listed <> after_number
        or not owns(me, own_shards, own_generations)
        or exists (
            select from unnest(part_shards, part_generations) as asked (shard, generation)
            where not exists (
                select from part p join shard h on h.shard = p.shard
                where p.shard = asked.shard and p.generation = asked.generation and h.owner = me
            )
        )
    then
        return false;
    end if;
    delete from part p using unnest(part_shards, part_generations) as asked (shard, generation)
        where p.shard = asked.shard and p.generation = asked.generation;
    if run_place is not null then
        -- Until the commit: otherwise a reader could see a run before one with a lower `seq`.
        perform pg_advisory_xact_lock(hashtextextended('abide_cluster.run', 0));
        insert into run (nonce, number, about, place) values (my_nonce, this_number, run_about, run_place);
    end if;
    update lane set archived = upto, listed = this_number where session = me;
    return true;
end $$;

-- Empties a table of the session's log if all of it is archived. Returns whether the table is empty; null if the session is fenced.
create function trim_log(me bigint, my_nonce uuid, half int) returns bool language plpgsql as $$
declare
    log text := log_table(my_nonce, half);
    bound bigint;
    is_empty bool;
    is_archived bool;
begin
    select least(l.archived, (select min(since) from part where session = me)) into bound
        from lane l where l.session = me;
    if not touch(me, my_nonce) then
        return null;
    end if;
    execute format('select not exists (select from %I)', log) into is_empty;
    if is_empty then
        return true;
    end if;
    begin
        execute format('lock table %I in access exclusive mode nowait', log);
    exception when lock_not_available then
        -- Someone reads it, or a late append is being committed.
        return false;
    end;
    execute format('select until <= $1 from %I order by until desc limit 1', log)
        into is_archived using bound;
    if is_archived then
        execute format('truncate %I', log);
    end if;
    return is_archived;
end $$;

-- Forgets some of the fenced sessions that have left nothing. False if the session is fenced.
create function forget(me bigint, my_nonce uuid) returns bool language plpgsql as $$
declare
    dead record;
begin
    if not touch(me, my_nonce) then
        return false;
    end if;
    for dead in
        select s.number, s.nonce from session s
        where s.is_fenced and not exists (select from shard where owner = s.number)
            and not exists (select from part where session = s.number)
        -- Each takes locks on about eight relations, whose number is limited.
        order by s.number limit 8 for update of s skip locked
    loop
        -- Again, with its row locked.
        continue when exists (select from shard where owner = dead.number)
            or exists (select from part where session = dead.number);
        begin
            execute format(
                'lock table %I, %I in access exclusive mode nowait', log_table(dead.nonce, 0), log_table(dead.nonce, 1)
            );
        exception when lock_not_available then
            continue;
        end;
        execute format('drop table %I, %I', log_table(dead.nonce, 0), log_table(dead.nonce, 1));
        delete from lease where session = dead.number;
        delete from lane where session = dead.number;
        delete from session where number = dead.number;
    end loop;
    return true;
end $$;
