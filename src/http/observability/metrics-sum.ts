// Adds up the metrics of several processes.

/** How the values of several processes become one. */
type Combine = (one: number, other: number) => number;

const sum: Combine = (one, other) => one + other;

/** Metrics that are not summed. */
const OTHER_RULES: readonly (readonly [pattern: RegExp, combine: Combine])[] = [
  [
    /^vitrine_(build_info|overload|memory_used_ratio|event_loop_delay_seconds|replica_lag_(bytes|seconds))(\{|$)/,
    Math.max,
  ],
  [/^(process_start_time_seconds$|vitrine_replica_in_rotation\{)/, Math.min],
];

const ruleOf = (sample: string): Combine => OTHER_RULES.find(([pattern]) => pattern.test(sample))?.[1] ?? sum;

/** A metric with its samples, in the text format. */
interface Family {
  /** The lines `# HELP` and `# TYPE`. */
  readonly head: string;
  /** Values by name and labels. */
  readonly samples: Map<string, number>;
}

type Families = Map<string, Family>;

/** Parses a document that `MetricsText` writes, and adds its values. */
function addDocument(families: Families, text: string, countersOnly: boolean): void {
  let family: Family | undefined;
  let help = '';
  for (const line of text.split('\n')) {
    if (line.startsWith('# HELP ')) help = line;
    else if (line.startsWith('# TYPE ')) {
      const [, , name = '', type = ''] = line.split(' ');
      family = undefined;
      if (countersOnly && type === 'gauge') continue;
      family = families.get(name) ?? { head: `${help}\n${line}\n`, samples: new Map() };
      families.set(name, family);
    } else if (family && line !== '') {
      const end = line.lastIndexOf(' ');
      const [sample, value] = [line.slice(0, end), Number(line.slice(end + 1))];
      if (countersOnly && sample.includes('quantile="')) continue;
      const before = family.samples.get(sample);
      family.samples.set(sample, before === undefined ? value : ruleOf(sample)(before, value));
    }
  }
}

/**
 * The metrics of several processes as one document: sums, the maximum of delays, shares and lags, and the earliest start.
 * @param documents those of running processes
 * @param ended the last ones of processes that have ended: only what they counted is added, so that no sum decreases
 */
export function sumMetrics(documents: readonly string[], ended: readonly string[] = []): string {
  const families: Families = new Map();
  for (const text of documents) addDocument(families, text, false);
  for (const text of ended) addDocument(families, text, true);
  let output = '';
  for (const { head, samples } of families.values()) {
    output += head;
    for (const [sample, value] of samples) output += `${sample} ${value}\n`;
  }
  return output;
}
