import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { SCOPES } from './access/principal.js';

const SCOPE_TEXTS: Readonly<Record<string, string>> = {
  'factory.data.read': 'Read rules and orders.',
  'factory.data.admin': 'Rules, residency, orders.',
  'factory.data.acknowledge': 'Owning services acknowledge tasks.',
};

/** The OpenAPI document of the REST side. docs/openapi.json is a copy, which a test compares. */
export function openApiOf(app: INestApplication): OpenAPIObject {
  const scopes = Object.fromEntries(SCOPES.map((scope) => [scope, SCOPE_TEXTS[scope] ?? '']));
  const config = new DocumentBuilder()
    .setTitle('Retention and residency')
    .setDescription(
      'How long data lives and where, for every tenant. Errors are problem+json; their codes are in docs/errors.md.',
    )
    .setVersion('1')
    .addOAuth2({ type: 'oauth2', flows: { clientCredentials: { tokenUrl: '/token', scopes } } }, 'oauth2')
    .build();
  return SwaggerModule.createDocument(app, config, { operationIdFactory: (_controller, method) => method });
}
