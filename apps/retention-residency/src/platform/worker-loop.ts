import { Logger } from '@nestjs/common';

export interface WorkerLoopInput {
  readonly name: string;
  /** Does some work and returns how much; while there is more it is called again at once. */
  readonly tick: () => Promise<number>;
  /** Between ticks that found nothing, unless it is woken. */
  readonly intervalMs: number;
}

/** Runs a worker's ticks one after the other, until it is stopped. A tick that fails is logged, and tried again later. */
export class WorkerLoop {
  private readonly logger = new Logger(WorkerLoop.name);
  private isStopping = false;
  private isWoken = false;
  private wakeUp: () => void = () => undefined;
  private running: Promise<void> | undefined;

  constructor(private readonly input: WorkerLoopInput) {}

  start(): void {
    this.running ??= this.run();
  }

  /** There may be something to do. */
  wake(): void {
    this.isWoken = true;
    this.wakeUp();
  }

  /** Returns once the tick that is running has ended. */
  async stop(): Promise<void> {
    this.isStopping = true;
    this.wakeUp();
    await this.running;
  }

  private async run(): Promise<void> {
    while (!this.isStopping) {
      this.isWoken = false;
      const done = await this.tick();
      if (done === 0 && !this.isWoken && !this.isStopping) await this.rest();
    }
  }

  private async tick(): Promise<number> {
    const { name, tick } = this.input;
    try {
      const done = await tick();
      if (done > 0) this.logger.debug(`${name}: ${done} done.`);
      return done;
    } catch (error) {
      this.logger.error(`${name} failed and goes on: ${(error as Error).message}`);
      this.isWoken = false;
      return 0;
    }
  }

  private rest(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.input.intervalMs);
      this.wakeUp = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
