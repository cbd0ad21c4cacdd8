/** A positive number from the environment. */
export function setting(name: string, fallback: number): number {
  const number = Number(process.env[name] || fallback);
  if (!(number > 0)) throw new Error(`${name} must be a number above 0`);
  return number;
}
