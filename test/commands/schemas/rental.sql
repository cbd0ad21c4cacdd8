-- A video rental, with what databases of that kind have: enums, domains, arrays, text search, partitions, triggers, views.
create domain year as integer check (value between 1888 and 2155);
create domain title as varchar(200) not null;
create type rating as enum ('G', 'PG', 'it''s 13+');
create type tag as enum ('new', 'old');

create table language (language_id smallserial primary key, name char(20) not null unique);
create table film (
  film_id serial primary key,
  title title,
  description text,
  release_year year,
  language_id smallint not null references language on delete cascade,
  original_language_id smallint references language on delete set null,
  rental_duration smallint not null default 3,
  rental_rate numeric(4,2) not null default 4.99,
  length interval,
  rating rating default 'G'::rating,
  special boolean not null default false,
  special_features text[],
  tags tag[] default '{}',
  cells integer[][] default array[[1], [2]],
  attachments bytea[],
  grid json[],
  available int4range,
  poster bytea,
  attributes jsonb not null default '{}',
  last_update timestamptz(3) not null default now(),
  barcode text unique,
  fulltext tsvector not null
);
comment on table film is E'Films\nthat */ are // "rented"';
comment on column film.title is E'Title of the "film", as it''s printed\non the box */ // end';
create index on film using gist (fulltext);
create function film_fulltext() returns trigger language plpgsql as
  $$ begin new.fulltext := to_tsvector('simple', new.title); return new; end $$;
create trigger film_fulltext before insert or update on film for each row execute function film_fulltext();

create table actor (actor_id integer primary key, name varchar(45) not null);
create table film_actor (
  actor_id integer references actor, film_id integer references film, primary key (actor_id, film_id)
);
create table staff (
  staff_id serial primary key,
  username varchar(16) not null,
  password_hash varchar(40),
  "apiKey" text,
  reset_token uuid,
  pw text,
  newpassword text,
  auth_key text,
  active boolean not null default true
);
alter table staff rename column "apiKey" to api_key;
create table payment (
  payment_id bigint not null primary key,
  amount numeric(5,2) not null,
  paid timestamp not null
) partition by hash (payment_id);
create table payment_2024 partition of payment for values with (modulus 2, remainder 0);
create table payment_2025 partition of payment for values with (modulus 2, remainder 1);
create table nothing (name text);

create table person (id integer primary key);
create table member (primary key (id)) inherits (person);
create table login_session (session_token text primary key, staff_id integer references staff);
create table visit (id integer primary key, via text references login_session);
create table interval_key (every interval primary key);
create view film_list as select film_id as id, title from film;
create materialized view film_totals as select count(*) from film;

insert into language (name) values ('English');
insert into film (title, language_id) values ('Academy Dinosaur', 1);
insert into staff (username, password_hash, api_key) values ('mike', 'hunter2', 'hunter2');
insert into payment values (1, 2.99, '2024-01-01 00:00:00.5');
