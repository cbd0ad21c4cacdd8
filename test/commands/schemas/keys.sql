-- Keys and rules that existing databases have.
create table person (id serial primary key, name text not null);
create table profile (person_id integer primary key references person on delete cascade, motto text);
create table document (id integer primary key references person, pages integer not null default 1);
create table contract (id integer primary key references person, name text);
create table clause (id serial primary key, contract_id integer not null references contract);
create table account (code text primary key, id serial unique not null);
create table booking (id serial primary key, account_id integer not null references account (id));
create table holiday (day date primary key, name text not null);
create table label (word varchar(20) default '' primary key, meaning text);
create table labeled (id serial primary key, word varchar(20) references label);

create domain grade as char(1) check (value in ('A', 'B'));
create table ticket (
  id serial primary key,
  state text not null default 'open' check (state in ('open', 'it''s done')),
  kind varchar(10) check (kind = 'a' or kind = 'b, c'),
  grade grade,
  weight integer check (weight in (1, 2, -3)),
  priority integer not null check (priority between 1 and 5),
  hours numeric(5,2) check (hours >= 0),
  price numeric(5,2) check (price > 0),
  note text check (length(note) > 3),
  code text check (code <> 'none')
);
create table door (id serial primary key, name text, pin text not null);

create table keyless (name text);
create table nearly_keyed (a integer not null, b integer, unique (a, b));
create table "Binary" (id bytea primary key, name text);
