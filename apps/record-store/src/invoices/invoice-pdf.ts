import type { Invoice } from './invoice.js';

/** An invoice on one page, as the smallest PDF that readers open. */
export function invoicePdf({ id, invoiceDate, total, billingAddress }: Readonly<Invoice>): Buffer {
  const lines = [`Invoice ${id}`, invoiceDate.toISOString().slice(0, 10), billingAddress ?? '', `Total ${total}`];
  const text = lines.map((line) => `(${escaped(line)}) '`).join(' ');
  const content = `BT /F1 12 Tf 16 TL 72 760 Td ${text} ET`;
  return withCrossReferences([
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ]);
}

/** Latin letters alone: the standard font has no others. */
function escaped(line: string): string {
  return line
    .normalize('NFD')
    .replace(/[^ -~]/g, '')
    .replace(/[\\()]/g, String.raw`\$&`);
}

function withCrossReferences(objects: readonly string[]): Buffer {
  let file = '%PDF-1.4\n';
  const offsets = objects.map((object, index) => {
    const offset = file.length;
    file += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return `${String(offset).padStart(10, '0')} 00000 n \n`;
  });
  const size = objects.length + 1;
  const table = `xref\n0 ${size}\n0000000000 65535 f \n${offsets.join('')}`;
  return Buffer.from(
    `${file}${table}trailer\n<< /Size ${size} /Root 1 0 R >>\nstartxref\n${file.length}\n%%EOF\n`,
    'latin1',
  );
}
