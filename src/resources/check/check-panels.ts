// Checks the panels of a registry file.
import { faultIf, type Fault } from '../../errors.ts';
import { checkKeys, isObject, unknownKeys } from '../definition/check-keys.ts';

/**
 * Checks panels, which may be anything, since a registry file need not use types.
 * @returns all faults; none for a valid `Panel[]`
 */
export function checkPanels(panels: unknown): Fault[] {
  if (!Array.isArray(panels))
    return [{ model: 'the registry', key: '', text: 'panels must be an array of panels' }];
  const titles = panels.map((panel: unknown) => (isObject(panel) ? panel['title'] : undefined));
  return Array.from(panels as unknown[], (panel, index) => {
    const title = titles[index];
    const isTitled = typeof title === 'string' && title.trim() !== '';
    const model = `panel ${isTitled ? JSON.stringify(title) : index + 1}`;
    if (!isObject(panel)) return [{ model, key: '', text: 'must be an object' }];
    return [
      ...unknownKeys(panel, ['title', 'text', 'load']),
      ...faultIf(!isTitled, 'title', 'must be a non-empty string'),
      ...faultIf(isTitled && titles.indexOf(title) < index, 'title', 'another panel has this title'),
      ...checkKeys(panel, ['text'], (text) => typeof text === 'string', 'must be a string'),
      ...faultIf(typeof panel['load'] !== 'function', 'load', 'must be a function'),
    ].map((fault) => ({ model, ...fault }));
  }).flat();
}
