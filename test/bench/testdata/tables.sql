-- What plain.sql works on.
create table sessions (id bigint primary key, step integer not null, updated_at timestamptz not null);
create table messages (id uuid primary key, session bigint not null, key text not null unique, body text not null, status text not null,
    sid text, updated_at timestamptz not null);
create table alarms (session bigint not null, step integer not null, due_at timestamptz not null, published_at timestamptz,
    primary key (session, step));
insert into sessions select n, 0, now() from generate_series(1, 100000) n;
create sequence turns;
