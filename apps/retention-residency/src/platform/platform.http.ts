import { Controller, Get, Header, Res } from '@nestjs/common';
import { ApiOkResponse, ApiServiceUnavailableResponse, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Open } from '../access/access.guard.js';
import { Health, type Readiness } from './health.js';
import { Metrics } from './metrics.js';

@ApiTags('platform')
@Controller()
export class PlatformController {
  constructor(
    private readonly health: Health,
    private readonly metrics: Metrics,
  ) {}

  /** The process answers. It asks nobody else. */
  @Get('health/live')
  @Open()
  @ApiOkResponse({ description: 'Alive.' })
  live(): { status: 'ok' } {
    return { status: 'ok' };
  }

  /** Database, migrations and the lag of the outbox. */
  @Get('health/ready')
  @Open()
  @ApiOkResponse({ description: 'It can serve.' })
  @ApiServiceUnavailableResponse({ description: 'It cannot, and why.' })
  async ready(@Res({ passthrough: true }) reply: FastifyReply): Promise<Readiness> {
    const readiness = await this.health.ready();
    if (readiness.status !== 'ok') void reply.status(503);
    return readiness;
  }

  /** For Prometheus. */
  @Get('metrics')
  @Open()
  @Header('Content-Type', 'text/plain; version=0.0.4; charset=utf-8')
  @ApiOkResponse({ content: { 'text/plain': { schema: { type: 'string' } } } })
  readMetrics(): Promise<string> {
    return this.metrics.registry.metrics();
  }
}
