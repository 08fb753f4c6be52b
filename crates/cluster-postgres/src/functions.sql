-- The statements of the sessions of a cluster. They are executed with `search_path` at the schema of their tables.
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

-- A log has two tables, which are filled and emptied in turn.
create or replace function log_table(nonce uuid, half int) returns text language sql immutable as $$
    select 'log_' || replace(nonce::text, '-', '') || '_' || half
$$;

-- All namespaces by number, this one among them.
create or replace function namespaces_with(key text) returns text[] language plpgsql as $$
begin
    -- So that the commit waits for the standby although the namespace may be there, and numbers have no gaps.
    update version set touched = touched + 1;
    insert into namespace (number, unique_key)
        select coalesce(max(number), 0) + 1, key from namespace
        having not exists (select from namespace where unique_key = key);
    return (select array_agg(unique_key order by number) from namespace);
end $$;

create or replace function touch(me bigint, my_nonce uuid) returns bool language plpgsql as $$
begin
    update session set touched = touched + 1 where number = me and nonce = my_nonce and not is_fenced;
    return found;
end $$;

-- Begins a session. It fences those that the same directory began before, whose processes have ended, and has the shards of those that
-- have renewed their leases for about as long as others wait for one that is silent: a process that ends again and again soon after its
-- start leaves its shards to others. Null if the directory has made this attempt or a later one before.
create or replace function begin_session(of_directory uuid, this_attempt bigint, my_nonce uuid) returns bigint language plpgsql as $$
declare
    last_attempt bigint;
    me bigint;
    own int[];
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
    perform 1 from shard h where h.owner in (select number from session where directory = of_directory)
        order by h.shard for update;
    select coalesce(array_agg(h.shard), '{}') into own
        from shard h join session s on s.number = h.owner join lease l on l.session = h.owner
        where s.directory = of_directory and l.renewals >= 7;
    perform end_tenures(own, null);
    perform give(own, me);
    return me;
end $$;

create or replace function renew(me bigint, my_nonce uuid, to_number bigint) returns bool language plpgsql as $$
begin
    update lease set renewals = greatest(renewals, to_number)
        where session = me and nonce = my_nonce and not is_fenced;
    return found;
end $$;

-- Waits for an append that is being committed.
create or replace function fence(me bigint, my_nonce uuid, target bigint, target_nonce uuid, seen bigint)
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
create or replace function leave(me bigint, my_nonce uuid) returns bool language plpgsql as $$
begin
    if not touch(me, my_nonce) then
        return false;
    end if;
    update session set is_fenced = true where number = me;
    update lease set is_fenced = true where session = me;
    update lane set is_fenced = true where session = me;
    return true;
end $$;

-- Fences a session at the word of an operator. False if there is none that is not fenced.
create or replace function fence_at_once(target bigint) returns bool language plpgsql as $$
begin
    update session set is_fenced = true where number = target and not is_fenced;
    if not found then
        return false;
    end if;
    update lease set is_fenced = true where session = target;
    update lane set is_fenced = true where session = target;
    return true;
end $$;

-- What a session owns of these shards, with what earlier owners have left.
create or replace function grants(shards int[]) returns jsonb language sql stable as $$
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
create or replace function end_tenures(shards int[], upto bigint) returns void language sql as $$
    insert into part (shard, generation, session, since, until)
    select h.shard, h.generation, h.owner, greatest(h.since, l.archived), coalesce(upto, l.lsn)
    from shard h join lane l on l.session = h.owner
    where h.shard = any (shards) and greatest(h.since, l.archived) < coalesce(upto, l.lsn);
    update shard h set floor = h.floor + coalesce(upto, l.lsn)
    from lane l where l.session = h.owner and h.shard = any (shards)
$$;

create or replace function give(shards int[], target bigint) returns jsonb language plpgsql as $$
begin
    update shard set owner = target, generation = generation + 1,
        since = (select lsn from lane where session = target)
        where shard = any (shards);
    return grants(shards);
end $$;

-- Takes those shards that are at these generations and have no owner that is not fenced. Null if the session is fenced.
create or replace function claim(me bigint, my_nonce uuid, shards int[], generations bigint[])
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
create or replace function hold(me bigint, my_nonce uuid) returns jsonb language plpgsql as $$
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

create or replace function owns(me bigint, shards int[], generations bigint[]) returns bool language sql stable as $$
    select not exists (
        select from unnest(shards, generations) as asked (shard, generation)
        where not exists (
            select from shard h
            where h.shard = asked.shard and h.generation = asked.generation and h.owner = me
        )
    )
$$;

-- Gives a shard away. Null if the session is fenced, does not own it, or is not durable up to the position, or if the target is not live.
create or replace function hand_over(
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

-- Until the commit: otherwise a reader could see a run before one with a lower `seq`.
create or replace function lock_runs() returns void language sql as $$
    select pg_advisory_xact_lock(hashtextextended('abide_cluster.run', 0))
$$;

-- Adds a run in some places of the list, or at its end. The list is locked.
create or replace function list_run(
    its_first bigint, its_last bigint, its_nonce uuid, its_number bigint, its_about text, its_place text
) returns bigint language plpgsql as $$
declare
    its_seq bigint := nextval(pg_get_serial_sequence('run', 'seq'));
begin
    insert into run (seq, first, last, nonce, number, about, place) overriding system value
        values (its_seq, coalesce(its_first, its_seq), coalesce(its_last, its_seq), its_nonce, its_number, its_about, its_place);
    return its_seq;
end $$;

-- Lists a run, unless it is listed. `run_about` and `run_place` are null if it has no records.
create or replace function publish(
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
        perform lock_runs();
        perform list_run(null, null, my_nonce, this_number, run_about, run_place);
    end if;
    update lane set archived = upto, listed = this_number where session = me;
    return true;
end $$;

-- Empties a table of the session's log if all of it is archived. Returns whether the table is empty; null if the session is fenced.
create or replace function trim_log(me bigint, my_nonce uuid, half int) returns bool language plpgsql as $$
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
create or replace function forget(me bigint, my_nonce uuid) returns bool language plpgsql as $$
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

-- Lets a session merge runs, remove those that were replaced, and write the catalogue: one session does, until it has ended or says that
-- it has done. Returns up to where there is a catalogue; null if the session is fenced, or if another merges.
create or replace function begin_merge(me bigint, my_nonce uuid) returns bigint language plpgsql as $$
declare
    upto bigint;
begin
    if not touch(me, my_nonce) then
        return null;
    end if;
    update version set merger = my_nonce
        where merger is null or merger = my_nonce
            or not exists (select from session where nonce = merger and not is_fenced)
        returning catalogued into upto;
    return upto;
end $$;

create or replace function end_merge(me bigint, my_nonce uuid) returns bool language plpgsql as $$
begin
    update version set merger = null where merger = my_nonce;
    return found;
end $$;

-- Lists a run in the places of those that it was merged from, unless it is listed. False if the session is fenced, or if one of them is
-- not listed.
create or replace function replace_runs(
    me bigint, my_nonce uuid, replaced text[], run_about text, run_place text
) returns bool language plpgsql as $$
declare
    its_first bigint;
    its_last bigint;
    found_all bool;
    its_seq bigint;
begin
    if not touch(me, my_nonce) then
        return false;
    end if;
    perform lock_runs();
    if exists (select from run where place = run_place) then
        return true;
    end if;
    select min(first), max(last), count(*) = cardinality(replaced) into its_first, its_last, found_all
        from run where place = any (replaced);
    if not found_all then
        return false;
    end if;
    its_seq := list_run(its_first, its_last, my_nonce, null, run_about, run_place);
    insert into replaced_run (place, seq) select unnest(replaced), its_seq;
    delete from run where place = any (replaced);
    return true;
end $$;

-- The runs that were listed after one, in the order of their places. The session says that it has the list up to there. Null if the
-- session is fenced.
create or replace function runs_after(me bigint, my_nonce uuid, after bigint) returns jsonb language plpgsql as $$
begin
    -- The commit waits until the standby has all that is read.
    update session set told = greatest(told, after), touched = touched + 1
        where number = me and nonce = my_nonce and not is_fenced;
    if not found then
        return null;
    end if;
    return (
        select coalesce(jsonb_agg(jsonb_build_object(
            'seq', seq, 'first', first, 'last', last, 'about', about, 'place', place
        ) order by first), '[]') from run where seq > after
    );
end $$;

-- Some of the runs that were replaced this long ago, and that neither a session has in its list nor the catalogue. Null if the session is
-- fenced.
create or replace function unread_runs(me bigint, my_nonce uuid, keep_ms bigint) returns text[] language plpgsql as $$
begin
    if not touch(me, my_nonce) then
        return null;
    end if;
    return (
        select coalesce(array_agg(place), '{}') from (
            select place from replaced_run
            where seq <= (select min(told) from session where not is_fenced)
                and seq <= (select catalogued from version)
                and since <= now() - keep_ms * interval '1 millisecond'
            order by seq limit 200
        ) as unread
    );
end $$;

create or replace function removed_runs(me bigint, my_nonce uuid, places text[]) returns bool language plpgsql as $$
begin
    if not touch(me, my_nonce) then
        return false;
    end if;
    delete from replaced_run where place = any (places);
    return true;
end $$;

-- All that is needed to make the tables again, but what logs alone have, as a catalogue with a new number.
create or replace function new_catalogue() returns jsonb language plpgsql as $$
declare
    unix_millis bigint := extract(epoch from clock_timestamp()) * 1000;
begin
    update version set catalogue = greatest(catalogue + 1, unix_millis);
    return (
        select jsonb_build_object(
            'version', 1,
            'number', catalogue,
            'unix_millis', unix_millis,
            'cluster', cluster,
            'seq', (select coalesce(max(seq), 0) from run),
            'namespaces', (select coalesce(jsonb_agg(unique_key order by number), '[]') from namespace),
            -- Of each shard, its generation, and how long its logs have been, added up.
            'shards', (
                select jsonb_agg(jsonb_build_array(h.generation, h.floor + coalesce(l.lsn, 0)) order by h.shard)
                from shard h left join lane l on l.session = h.owner
            ),
            'runs', (
                select coalesce(jsonb_agg(jsonb_build_object(
                    'first', first, 'last', last, 'about', about, 'place', place
                ) order by first), '[]') from run
            ),
            'replaced', (select coalesce(jsonb_agg(place order by seq, place), '[]') from replaced_run)
        ) from version
    );
end $$;

-- Null if the session is fenced.
create or replace function catalogue(me bigint, my_nonce uuid) returns jsonb language plpgsql as $$
begin
    if not touch(me, my_nonce) then
        return null;
    end if;
    return new_catalogue();
end $$;

-- The object store has a catalogue up to here.
create or replace function catalogued_runs(me bigint, my_nonce uuid, upto bigint) returns bool language plpgsql as $$
begin
    if not touch(me, my_nonce) then
        return false;
    end if;
    update version set catalogued = greatest(catalogued, upto);
    return true;
end $$;

-- Fills new tables with a catalogue, as those of another cluster, and returns its first catalogue. After the old one was written, shards may
-- have had further tenures, and logs further records, which are lost. So generations and floors rise by more than that: a generation is
-- not below the time in units of 4,096 ms, and the floor rises by 2^42 bytes, which leaves commit numbers as they are, and 2^20 bytes.
create or replace function rebuild(of jsonb, new_name uuid) returns jsonb language plpgsql as $$
declare
    of_time bigint := extract(epoch from clock_timestamp()) * 1000 / 4096;
begin
    update version set cluster = new_name, catalogue = (of ->> 'number')::bigint;
    insert into namespace (number, unique_key)
        select number, unique_key from jsonb_array_elements_text(of -> 'namespaces') with ordinality as n (unique_key, number);
    update shard set
        generation = greatest((s.known ->> 0)::bigint + 64, least(of_time, 1 << 30)),
        floor = (s.known ->> 1)::bigint + (1::bigint << 42) + (1::bigint << 20)
        from jsonb_array_elements(of -> 'shards') with ordinality as s (known, number)
        where shard.shard = s.number - 1;
    insert into run (seq, first, last, nonce, about, place) overriding system value
        select (r ->> 'last')::bigint, (r ->> 'first')::bigint, (r ->> 'last')::bigint, '00000000-0000-0000-0000-000000000000',
            r ->> 'about', r ->> 'place'
        from jsonb_array_elements(of -> 'runs') as r;
    perform setval(pg_get_serial_sequence('run', 'seq'), greatest((of ->> 'seq')::bigint, 1));
    insert into replaced_run (place, seq) select place, 0 from jsonb_array_elements_text(of -> 'replaced') as r (place);
    return new_catalogue();
end $$;
