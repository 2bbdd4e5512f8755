import { applyDecorators } from '@nestjs/common';
import { ApiHeader, ApiProperty, ApiResponse, ApiSecurity, getSchemaPath } from '@nestjs/swagger';
import type { Scope } from '../access/principal.js';

export class FaultView {
  @ApiProperty({ description: 'A JSON pointer into the body, or header:NAME, query:NAME, path:NAME.' })
  pointer!: string;
  @ApiProperty() detail!: string;
}

/** application/problem+json (RFC 9457). */
export class ProblemView {
  @ApiProperty() type!: string;
  @ApiProperty() title!: string;
  @ApiProperty({ type: 'integer' }) status!: number;
  @ApiProperty() detail!: string;
  @ApiProperty() instance!: string;
  @ApiProperty({ description: 'One of docs/errors.md.' }) code!: string;
  @ApiProperty() traceId!: string;
  @ApiProperty({ type: [FaultView], required: false }) errors?: FaultView[];
}

/** What every call with a token has in common. */
export function Documented(scope: Scope) {
  return applyDecorators(
    ApiSecurity('oauth2', [scope]),
    ApiHeader({ name: 'X-Tenant-Id', required: false, description: 'The tenant, where the token may name any.' }),
    ApiResponse({
      status: 'default',
      description: 'A problem.',
      content: { 'application/problem+json': { schema: { $ref: getSchemaPath(ProblemView) } } },
    }),
  );
}
