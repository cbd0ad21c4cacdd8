// A queue that serves its clients round-robin, so that a client with many entries delays only itself.
import { ClientQueue } from './client-queue.ts';

export class FairQueue<T> extends ClientQueue<T> {
  /** How many entries are served before a new one of this client. */
  ahead(key: string): number {
    const own = this.sizeOf(key);
    const clients = this.clients + (own === 0 ? 1 : 0);
    return Math.min(this.size, own * clients + clients - 1);
  }

  /**
   * Takes the oldest entry of the next client: the map holds the clients in the order in which they are served.
   * @param mayRun skips clients for which it is false, with their oldest entries
   */
  shift(mayRun: (key: string, oldest: T) => boolean): T | undefined {
    for (const [key, entries] of this.byClient) {
      const entry = this.first(key);
      if (entry === undefined || !mayRun(key, entry)) continue;
      this.remove(key, entry);
      // The client moves to the end of the order, unless no other client waits.
      if (entries.size > 0 && this.clients > 1) {
        this.byClient.delete(key);
        this.byClient.set(key, entries);
      }
      return entry;
    }
    return undefined;
  }
}
