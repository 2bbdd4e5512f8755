import { serverOfRun } from './jest-global-setup.js';

/** Drops the run's databases and stops what the setup started. Jest loads both files in one process. */
export default async function stopServerOfRun(): Promise<void> {
  await serverOfRun()?.stop();
}
