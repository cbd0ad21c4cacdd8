// Models with a key of two columns, and a foreign key to it.
import type { Resource } from '../src/index.ts';

export const film: Resource = { model: 'film', columns: { title: { type: 'string' } } };
export const casting: Resource = {
  model: 'casting',
  primaryKey: { columns: ['film', 'actor'] },
  columns: {
    film: { type: 'foreignKey', references: 'film' },
    actor: { type: 'string' },
    role: { type: 'string', null: true },
  },
};
export const award: Resource = {
  model: 'award',
  columns: {
    name: { type: 'string' },
    film_id: { type: 'integer', null: true },
    actor: { type: 'string', null: true },
  },
  foreignKeys: { casting: { columns: ['film_id', 'actor'], references: 'casting' } },
};
