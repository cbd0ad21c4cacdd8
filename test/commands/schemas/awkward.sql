-- Names and shapes that nobody likes and that databases have.
create schema "Far Away";
create table "Far Away".person (id serial primary key, name text not null);
create schema "dot.ted";

create table person (
  "Person No" bigint generated always as identity primary key,
  "E-Mail" varchar(80) not null unique,
  parent_id bigint references person,
  counted bigint default 1 references person on delete set default,
  must bigint references person on delete set null not null,
  elsewhere integer references "Far Away".person
);
insert into person overriding system value values (1, 'ada@example.org', null, 1, 1, null);
insert into person overriding system value values (2, 'bob@example.org', 1, 1, 1, null);

create table "Order Detail" (
  "Detail ID" uuid primary key default gen_random_uuid(),
  "Billed To" bigint not null references person,
  "ShippedToID" bigint references person,
  "PersonEmail" varchar(80) references person ("E-Mail"),
  "Unit Price" numeric(10,2) not null,
  quantity integer not null default '1',
  total numeric(12,2) generated always as ("Unit Price" * quantity) stored,
  at timestamptz not null default current_timestamp
);
insert into "Order Detail" ("Billed To", "Unit Price") values (1, 9.5);

create table "select" (
  id integer primary key,
  "from" text,
  "where" text not null default 'it''s "here"',
  "group" integer generated always as identity,
  "user" date not null default '2024-02-29'
);
insert into "select" (id) values (-1);

create table odd_names (
  key text primary key,
  id text, ordering text, "limit" text, page text,
  trailing_ text, a__b text, "a b" text, "!!!" text,
  constructor text, __proto__ text, "äccent" text, "theCase" text, "quote""d\" text
);
insert into odd_names (key) values ('a/b c?'), ('ä"%');

create table "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" (
  "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy" integer,
  "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyz" integer,
  id smallint primary key
);
create table "Vitrine Like" (id integer primary key, name text not null);
create table "has.dot" (id integer primary key);
create table pair (a integer, b integer, id integer not null unique, primary key (a, b));
create table of_pair (
  id integer primary key, a integer, b integer, foreign key (a, b) references pair (a, b)
);
create table child (child_id bigint primary key references person, "line
break" text, paid bigint references person);
insert into child values (1, 'x', 1);
comment on column child.paid is U&'turned \202E around';
