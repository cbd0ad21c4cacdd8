// Checks the panels of a registry file.
import { faultIf, type Fault } from '../../errors.ts';
import type { Panel } from '../definition/panel.ts';
import { PANEL } from './registry-schema.ts';
import { isObject } from '../definition/validators.ts';

/**
 * Checks panels, which may be anything, since a registry file need not use types.
 * @returns all faults; none for a valid `Panel[]`
 */
export function checkPanels(panels: unknown): Fault[] {
  if (!Array.isArray(panels))
    return [{ model: 'the registry', key: '', text: 'panels must be an array of panels' }];
  const all = Array.from(panels as unknown[]);
  const faults = all.flatMap((panel, index) => {
    const title = isObject(panel) ? panel['title'] : undefined;
    const isTitled = typeof title === 'string' && title.trim() !== '';
    const model = `panel ${isTitled ? JSON.stringify(title) : index + 1}`;
    return PANEL(panel, '').map((fault) => ({ model, ...fault }));
  });
  if (faults.length > 0) return faults;
  const titles = (all as readonly Panel[]).map(({ title }) => title);
  return titles.flatMap((title, index) =>
    faultIf(titles.indexOf(title) < index, 'title', 'another panel has this title').map((fault) => ({
      model: `panel ${JSON.stringify(title)}`,
      ...fault,
    })),
  );
}
