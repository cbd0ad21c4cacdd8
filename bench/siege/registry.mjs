// The resources of the besieged service: the shipped ones, and one for each kind of data that an attack aims at.
const user = {
  model: 'user',
  columns: {
    username: { type: 'string', unique: true },
    password: { type: 'password' },
    email: { type: 'string' },
    join_date: { type: 'datetime', default: 'now' },
    active: { type: 'boolean', default: true },
    admin: { type: 'boolean', default: false },
  },
  access: 'admin',
  exclude: ['password', 'email'],
  admin: { search: ['username', 'email'] },
};

const message = {
  model: 'message',
  columns: {
    user: { type: 'foreignKey', references: 'user' },
    content: { type: 'text' },
    pub_date: { type: 'datetime', default: 'now' },
  },
  access: 'user',
  owner: 'user',
};

const TYPES = 'string text integer bigint float decimal boolean datetime date time uuid json'.split(' ');
const columns = (names, columnOf) => Object.fromEntries(names.map((name, n) => [name, columnOf(name, n)]));
const numbered = (count, name) => Array.from({ length: count }, (_, n) => `${name}${n}`);

/** One column of each type. */
const value = {
  model: 'value',
  columns: columns(TYPES, (type) => ({ type, null: true })),
  access: 'user',
};

/** Records of one megabyte each. */
const document = {
  model: 'document',
  columns: { body: { type: 'text' } },
  access: 'user',
  admin: { list: ['id'] },
};

/** Read by users only: an answer of 200 shows that a login succeeded. */
const diary = { model: 'diary', columns: { entry: { type: 'text' } }, read: 'user', access: 'user' };

/** Hidden from everybody but admins. */
const team = { model: 'team', columns: { name: { type: 'string' } }, read: 'admin', access: 'admin' };

const member = {
  model: 'member',
  columns: {
    nickname: { type: 'string' },
    code: { type: 'string', unique: true, null: true },
    team: { type: 'foreignKey', references: 'team', null: true },
  },
  access: 'user',
  exclude: ['code'],
};

/** A key of two columns, and as many arrays as fit into a body. */
const measure = {
  model: 'measure',
  primaryKey: { columns: ['station', 'day'] },
  columns: {
    station: { type: 'integer' },
    day: { type: 'date' },
    ...columns(numbered(20, 'values'), () => ({ type: 'array', of: 'decimal', null: true })),
  },
  access: 'user',
};

/** As many columns as a page may offer to filter by. */
const wide = {
  model: 'wide',
  columns: columns(numbered(100, 'column'), () => ({ type: 'string', null: true })),
};

/** Records whose output takes PostgreSQL longer than that of others: a page of 100 takes some milliseconds. */
const report = {
  model: 'report',
  columns: columns(numbered(80, 'column'), (_, n) => ({ type: n < 60 ? 'datetime' : 'float' })),
};

/** Texts that PostgreSQL copies to lower case for each comparison: its columns are `citext`. */
const folded = {
  model: 'folded',
  columns: { body: { type: 'text', null: true }, tags: { type: 'array', of: 'text', null: true } },
  access: 'user',
};

export default [user, message, value, document, diary, team, member, measure, wide, report, folded];
