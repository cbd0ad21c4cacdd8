// Answers requests to the address of METRICS.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { notFound, Problem } from '../../errors.ts';
import { methodNotAllowed } from '../api/api-routes.ts';
import { INTERNAL_ERROR, problemReply, type Reply } from '../message/message.ts';
import { splitTarget } from '../message/request-head.ts';
import type { Logger } from './logger.ts';
import { METRICS_METHODS, type Metrics } from './metrics.ts';
import { messageOf } from '../../messages.ts';

export const METRICS_PATH = '/metrics';

const FOREIGN_HOST = new Problem(421, messageOf('foreignHost'));

/**
 * Whether no one can have pointed this name of the address at it to read the metrics from a page in a browser of the network (DNS
 * rebinding). Only names with a dot can be registered. Browsers always send `Host`.
 */
function isOwnHost(sent: string | undefined, host: string): boolean {
  if (sent === undefined) return true;
  const name = sent.replace(/:\d*$/, '').replace(/^\[(.*)\]$/, '$1');
  return isIP(name) !== 0 || /^[\w-]+$/.test(name) || name.toLowerCase() === host.toLowerCase();
}

const isMetrics = (target: string): boolean => splitTarget(target)[0] === METRICS_PATH;

/** A handler that serves only `/metrics`. @param host the host of METRICS */
export function createMetricsHandler(metrics: Metrics, host: string, logger: Logger) {
  async function answer({ url = '', method = '', headers }: IncomingMessage): Promise<Reply> {
    try {
      if (!isOwnHost(headers.host, host)) throw FOREIGN_HOST;
      if (isMetrics(url)) return await metrics.reply(method);
      throw notFound();
    } catch (error) {
      if (error instanceof Problem) return problemReply(error, '');
      logger.error({ message: String(error), stack: (error as Error).stack });
      return problemReply(INTERNAL_ERROR, '');
    }
  }
  const handler = (request: IncomingMessage, response: ServerResponse): void =>
    void answer(request).then(({ status, headers, body }) => {
      response.statusCode = status;
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      response.setHeader('X-Content-Type-Options', 'nosniff').end(body);
    });
  const refuseMethod = (target: string): Reply =>
    problemReply(isMetrics(target) ? methodNotAllowed(METRICS_METHODS) : notFound(), '');
  return Object.assign(handler, { refuseMethod });
}
