// The registry that Vitrine serves when RESOURCES is not set.
import type { Registry, Resource } from './definition/resource.ts';

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
  admin: {
    title: 'Users',
    group: 'People',
    list: ['username', 'email', 'join_date', 'active', 'admin'],
    search: ['username', 'email'],
  },
} satisfies Resource;

export const relationship = {
  model: 'relationship',
  columns: {
    from_user: { type: 'foreignKey', references: 'user' },
    to_user: { type: 'foreignKey', references: 'user' },
  },
  access: 'user',
  owner: 'from_user',
  admin: {
    title: 'Relationships',
    group: 'People',
    label: '{from_user__username} follows {to_user__username}',
    search: ['from_user__username', 'to_user__username'],
  },
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
  admin: {
    title: 'Messages',
    group: 'Texts',
    list: ['content', 'user', 'pub_date'],
    search: ['content', 'user__username'],
    filters: ['user', 'content', 'pub_date'],
  },
} satisfies Resource;

export const note = {
  model: 'note',
  columns: {
    message: { type: 'text' },
    created: { type: 'datetime', default: 'now' },
  },
  access: 'user',
  admin: { title: 'Notes', group: 'Texts', list: ['message', 'created'] },
} satisfies Resource;

const resources = [user, relationship, message, note] satisfies Resource[];

export default resources satisfies Registry<typeof resources>;
