// The resources of `npm run faults`. Each write sets `token`, so the history shows which writes were made.
export default [
  {
    model: 'user',
    columns: {
      username: { type: 'string', unique: true },
      password: { type: 'password' },
      active: { type: 'boolean', default: true },
      admin: { type: 'boolean', default: false },
    },
    exclude: ['password'],
  },
  {
    model: 'counter',
    columns: { token: { type: 'string' }, value: { type: 'integer' } },
    access: 'user',
  },
  {
    model: 'entry',
    columns: {
      token: { type: 'string' },
      number: { type: 'integer' },
      payload: { type: 'text' },
      counter: { type: 'foreignKey', references: 'counter' },
    },
    access: 'user',
  },
];
