import { ConsoleLogger } from '@nestjs/common';

/** Nest's logger, on standard error throughout: standard output belongs to what a program was asked for. */
export class StderrLogger extends ConsoleLogger {
  protected override printMessages(...args: Parameters<ConsoleLogger['printMessages']>): void {
    args[3] = 'stderr';
    super.printMessages(...args);
  }
}
