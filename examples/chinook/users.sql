-- The people who may log in: Chinook itself knows customers and employees, but no user names and passwords.
create table login (
  login_id serial primary key,
  username varchar(60) not null unique,
  password text not null,
  active boolean not null default true,
  admin boolean not null default false
);
