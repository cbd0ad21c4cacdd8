// The registry of the server that rows of pairs are measured on. It imports nothing, so that it can be compiled alone.
const entry = {
  user: { type: 'foreignKey', references: 'user' },
  number: { type: 'integer' },
  content: { type: 'text' },
  pub_date: { type: 'datetime', default: 'now' },
};

export default [
  {
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
  },
  {
    model: 'message',
    columns: {
      user: { type: 'foreignKey', references: 'user' },
      content: { type: 'text' },
      pub_date: { type: 'datetime', default: 'now' },
    },
    access: 'user',
    owner: 'user',
  },
  { model: 'single', columns: entry },
  { model: 'several', primaryKey: { columns: ['user', 'number'] }, columns: entry },
  { model: 'large', columns: { number: { type: 'integer' } } },
];
