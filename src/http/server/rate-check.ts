// Refuses the requests of a client over RATE_LIMIT.
import { Problem } from '../../errors.ts';
import type { RateLimit } from '../load/rate-limit.ts';
import { isHealthCheck } from '../message/request-head.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Site } from '../api/site.ts';
import type { Exchange } from './exchange.ts';

interface RateOptions {
  readonly metrics: Metrics;
  readonly rateLimit: RateLimit | undefined;
  readonly site: () => Site | undefined;
}

/** Whether the limit leaves out a request: health checks and the files of the pages. */
function isUncounted({ path, method }: Exchange, { site }: RateOptions): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  return isHealthCheck(path) || site()?.pages.isAsset(path) === true;
}

/** @throws Problem 429 for a client over RATE_LIMIT */
export function assertRate(exchange: Exchange, options: RateOptions): void {
  const { rateLimit, metrics } = options;
  if (!rateLimit || isUncounted(exchange, options)) return;
  const seconds = rateLimit.spend(exchange.countedClient);
  if (seconds === 0) return;
  metrics.limited();
  throw new Problem(429, 'You are sending too many requests. Try again later.', {
    headers: { 'Retry-After': String(Math.ceil(seconds)) },
  });
}
