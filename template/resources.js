// @ts-check
// The registry: which tables there are, and who may do what with them.

/**
 * The users of the site. The service needs a user model as soon as anyone may write.
 * @type {import('vitrine').Resource}
 */
const user = {
  model: 'user',
  columns: {
    username: { type: 'string', unique: true },
    password: { type: 'password' }, // stored as a hash
    active: { type: 'boolean', default: true },
    admin: { type: 'boolean', default: false },
  },
  read: 'admin', // only admins may read users...
  access: 'admin', // ...and write them
  exclude: ['password'],
};

/** @type {import('vitrine').Resource} */
const article = {
  // The name of the table, and of the URL /api/article/.
  model: 'article',

  // Each record also has an "id". A column is required unless it has a default or "null: true".
  columns: {
    title: { type: 'string', maxLength: 120 },
    text: { type: 'text', help: 'Any length.' },
    state: { type: 'string', choices: ['draft', 'published'], default: 'draft' },
    author: { type: 'foreignKey', references: 'user', onDelete: 'cascade' },
    created: { type: 'datetime', default: 'now' },
  },

  read: 'default', // anyone may read articles; 'user' and 'admin' ask for a login
  access: 'user', // every user may add articles; without this, only admins may, at /admin/
  owner: 'author', // only the author may change or delete an article, except admins at /admin/
  readonly: ['created'], // clients can read it but not set it
  ordering: '-created', // newest first, unless a request asks for another order

  // How the pages at /admin/ show articles. Optional.
  admin: {
    list: ['title', 'author', 'state', 'created'],
    search: ['title', 'text'],
    filters: ['state', 'author'],
  },
};

export default [user, article];
