interface LosableClient {
  release: (destroy?: boolean | Error) => void;
  once(event: 'end', listener: () => void): unknown;
}

/** What is used of a pool of node-postgres. */
interface LosablePool {
  on(event: 'connect', listener: (client: LosableClient) => void): unknown;
}

/**
 * For `driverOptions.onPoolCreated` of MikroORM. A transaction whose connection is lost is not given back to the pool by
 * MikroORM 7.2 and kysely 0.29: the rollback fails first. Without this, an outage leaves a pool in which connections are
 * taken for ever, until every call waits for one.
 */
export function giveBackLostConnections(pool: LosablePool): void {
  pool.on('connect', (client) => {
    client.once('end', () => {
      const { release } = client;
      // Whoever still holds it gives it back a second time.
      client.release = () => undefined;
      try {
        release(true);
      } catch {
        // It was not taken.
      }
    });
  });
}
