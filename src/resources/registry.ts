import type { Registry, Resource } from './resource.ts';

export const user = {
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
} satisfies Resource;

export const relationship = {
  model: 'relationship',
  columns: {
    from_user: { type: 'foreignKey', references: 'user' },
    to_user: { type: 'foreignKey', references: 'user' },
  },
  access: 'user',
  owner: 'from_user',
} satisfies Resource;

export const message = {
  model: 'message',
  columns: {
    user: { type: 'foreignKey', references: 'user' },
    content: { type: 'text' },
    pub_date: { type: 'datetime', default: 'now' },
  },
  access: 'user',
  owner: 'user',
} satisfies Resource;

export const note = {
  model: 'note',
  columns: {
    message: { type: 'text' },
    created: { type: 'datetime', default: 'now' },
  },
  access: 'user',
} satisfies Resource;

const resources = [user, relationship, message, note] satisfies Resource[];

export default resources satisfies Registry<typeof resources>;
